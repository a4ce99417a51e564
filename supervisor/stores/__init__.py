"""Where leases live: one interface, two implementations (`sqlite`, `dynamodb`)."""

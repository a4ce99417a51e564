"""Between the connections and a user's handler: order, slices, timers, failures."""

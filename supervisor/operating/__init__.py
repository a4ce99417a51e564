"""What operators wish for shards, from the first look to the effect. Begin at `operate`."""

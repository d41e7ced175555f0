"""The functions of aggregating tables, on arrays. Pure; imports codec and below. `registry` is the table of them."""

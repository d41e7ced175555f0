"""From a Flight message to a call of the node and back: admission, limits, answers that are kept."""

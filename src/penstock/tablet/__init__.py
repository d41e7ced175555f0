"""One bucket: plan, merge, scan, compact, recover. Decisions are pure, effects thin."""

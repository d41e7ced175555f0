"""One bucket: plan, merge, scan, compact, recover. Decisions are pure, effects thin.

- A write is planned, appended, synced, then published; nothing is visible before it is durable (I-1).
- Ends and index are derived: lost, stale or damaged, they are made anew from the log (I-2, I-9).
- Three kinds of callers. The *committer* runs one step at a time: planning, appending, publishing, and
  every swap of files, which reach it through `Tablet.exclusively`. *Background steps* (seal,
  checkpoint, compact, snapshot) of one bucket run one after the other, outside the committer. *Readers*
  hold a view, and take no lock.
- What a manifest names is durable before the manifest is; what it no longer names goes after that.

Imports `log`, `index` and what is below them. The engine imports it; Spark's tasks read a snapshot's files with it.
"""

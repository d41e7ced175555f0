"""A whole node without a network: catalog, open tables, scans, changes, lookups, leases, owners, background work.

A write is acknowledged when it is durable and visible, and what is read is one cut. Imports tablet, index, log, codec,
runtime, model and errors; knows neither clients nor the wire.

The floors. A sub-room imports only those below it; those side by side do not know each other (`engine-floors`):

    engine                                        opens the parts, wires them, closes them
    facets                                        the node as one principal sees it
    backup
    leases
    scan | changes | lookup | owners | upkeep     what is done with open tables
    table                                         open tables, by name; what is dropped; pins
    commit                                        the committer of a table, and the seam to its log
    catalog | home                                what there is; the directory, its disk, its memory
    metadata | rows                               the store of small records; how large a page is
    settings

The order of locks. A thread that holds one takes only those that stand further down:

     1. `Snapshots._taking[table]`      one snapshot of a table at a time
     2. `_FilesLock.lock` of a bucket   one step of background work in a bucket (`Maintenance.attending`)
     3. `Leases._lock`                  leases and what they hold; the committer is never waited for under it
     4. `OpenTables._removing`          files of dropped tables and partitions are opened or removed, not both
     5. `OpenTables._lock`              which tables are open
     6. `OpenTable._lock`               names and partitions of one table
     7. the committer                   a caller of `Committer.run` or `write` waits for its thread; so a step
                                        that runs there takes none of the locks above, nor calls what does
     8. `Committer.published`           index and views while they change; a lookup holds it to read both as one
     9. `CatalogRecords.lock`           the catalog; under it records are stored
    10. registries: scan sessions, cuts, named cuts, pins of readers, pins of leases, restart grace, staged rows,
        owners by table, dropped buckets, `Terms`, `Reclaim`; none is taken under another
    11. `TabletSnapshots`, then `KeptFiles`, then `Pins` of a bucket
    12. the key index (of a bucket's front: draining, then its table; then RocksDB), the pools of open files and of
        chunks, the disk, the metadata store, metrics, tasks: they call nothing above them

A scan session has a lock of its own while a page of it is read; the registry's is never held then. Readers of a view
take no lock at all.
"""

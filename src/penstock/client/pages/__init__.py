"""Pages of one bucket, asked for with retries: of a scan session, or of the change log.

Each row is handed out once, also when a reply is lost or a session has to be resumed.
"""

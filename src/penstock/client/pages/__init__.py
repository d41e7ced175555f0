"""Pages of one bucket, asked for with retries: of a scan session, or of the change log.

A page that was lost is read again at its offset: each row comes once. Imports `client.link`, model and errors.
"""

"""`penstock demo`: a shop's orders, a Spark job that folds them, two crashes, and a check of every total.

Every total is compared with what was sent, and a difference fails the demo. Imports `cli.terminal`, the client and
`spark`, and below.
"""

"""`penstock demo`: a shop's orders, a Spark job that folds them, two crashes, and a check of every total.

The server and the job are processes of their own, so that they can be killed. The job is a program as a
user would write it; everything else here feeds it, watches it, kills it and checks what it made.
"""

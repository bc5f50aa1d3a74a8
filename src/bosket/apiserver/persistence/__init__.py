"""The store on disk.

directory    the data directory: a database, and the cluster's keys
database     SQLite: one row for each write
journal      appends writes in a thread, several to a commit
restore      fills a store from the database
row          a row and its checksum
examination  finds damaged rows before they are used
progress     how far the file got, kept beside it
"""

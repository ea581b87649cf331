"""The processes that share a queue: which are alive, their names, and the folder where each keeps results.

Two living processes never have the same name. All living processes keep results in the same folder.
"""

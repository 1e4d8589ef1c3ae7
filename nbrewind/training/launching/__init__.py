"""Code of a notebook on several ranks: processes that torch's elastic launcher starts.

Three processes take part. The *kernel* (`launch`) gives code to the ranks, shows what they
print and takes back what they return. The *agent* runs torch's launcher, so that the notebook's
process needs no torch and none of its signal handlers. Each *rank* runs the code. Ranks and
agent end when the kernel does, however it ends.
"""

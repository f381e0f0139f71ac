"""Every table and figure of both papers, and the studies beyond them, from one command each.

A study is cells, which are run once each and stored as rows; tables and figures are made of rows
alone, so that they can be drawn again without training anything.
"""

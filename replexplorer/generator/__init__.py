"""The inside of the load's own process: its connections, clients, tables and reports.

It stands above the adapters because it logs in through `adapters.mysql`; nothing but the
composition root `replexplorer.load_process` imports it.
"""

"""One controller process: its machines behind one ``step``. Start reading at ``machine``."""

"""An ACP agent that follows a script: needs no key and no network, and dies where the script says so."""

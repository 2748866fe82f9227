complete --keep-order --exclusive --command bowline --arguments "(COMPLETE=fish bowline -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"

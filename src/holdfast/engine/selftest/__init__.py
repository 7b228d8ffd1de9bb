"""Whether what Holdfast rests on holds here: this disk, this kernel, this git, and a run that is killed and resumed."""

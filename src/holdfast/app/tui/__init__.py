"""The dashboard of `holdfast top`: what it says is made by plain functions, of values; widgets only put it up."""

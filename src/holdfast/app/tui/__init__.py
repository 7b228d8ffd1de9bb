"""The dashboard of `holdfast top`. Pure functions compute its rows; widgets only draw them."""

"""How axes are replaced, nested and renamed: what scheduling steps share."""

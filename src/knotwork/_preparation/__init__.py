"""From a table to members: columns, targets, splits and fitted encodings, the first of the three steps of every fit."""

"""The checker of annotations that tests run under: beartype, with whole numbers allowed where a float is asked for."""

from beartype import BeartypeConf, beartype

typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))

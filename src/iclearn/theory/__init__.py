"""Closed forms and ODEs, one package a paper, each function citing its equation; shares no engine code."""

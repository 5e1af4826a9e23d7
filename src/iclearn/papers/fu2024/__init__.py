from ..looped import PAPER as PAPER

"""The array's methods: the doors that stand above all functions, each a line that opens one, in the chapters of NumPy's reference.

What an array is stands in ``array/state.py``, its operators in ``array/operators.py``, and what Python and NumPy call in
``protocols.py``. The code is short: most of it is NumPy's signatures and docstrings, where ``help`` and type checkers look.
"""

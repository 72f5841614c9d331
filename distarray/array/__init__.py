"""What an array is: its state, how calls on it are recorded, how objects become arrays. No functions of NumPy's."""

"""
Random programs, results, schedules, scripts and texts against dlc; a case is its kind and a seed.

    python -m fuzzing                       # until interrupted; failures go to ./fuzz-failures
    python -m fuzzing --seconds 120
    python -m fuzzing --cases programs=2000,schedules=2000,texts=5000
    python -m fuzzing --replay programs:17
    python -m fuzzing --backend cuda --jobs 12 --cases 40

(with `test/python` on PYTHONPATH; `make fuzz` does that.)
"""

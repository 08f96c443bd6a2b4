"""Studies: many trainings and what is measured of them, kept as they come, summed up in a report.

The engine knows no study: `plan` says what is trained, `measurement` what is measured of it, `store` keeps
each measurement under the digest of all that it depends on, `runner` computes what is not there, here or on
Ray, `results` looks numbers up and `report` shows them. A study is a folder beside these files.
"""

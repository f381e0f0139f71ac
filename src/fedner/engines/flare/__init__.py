"""Platforms in processes of their own, on machines of their own: NVIDIA FLARE carries messages.

Nothing here is imported before somebody deploys a federation; FLARE is the extra `fedner[flare]`.
"""

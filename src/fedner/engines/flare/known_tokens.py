"""FLARE's server process checks a signature of every frame that passes; a known one is known.

Each frame brings the sender's name, its token and the server's own signature of both: the same
three for as long as the platform is connected. To verify an RSA signature anew for each of them was
a third of the server's work in a round. Whether a token is still admitted is asked as before.
"""

from typing import Any

_MOST = 4096


def remember_tokens() -> None:
    """Let this process verify the signature of a token once; what fails is verified each time."""
    from nvflare.private.fed.utils.identity_utils import TokenVerifier

    verify = TokenVerifier.verify

    def remembered(verifier: Any, client_name: str, token: str, signature: str) -> bool:
        known = verifier.__dict__.setdefault("_fedner_known", {})
        key = client_name, token, signature
        if key in known:
            return True
        if not verify(verifier, client_name, token, signature):
            return False
        if len(known) >= _MOST:
            known.clear()
        known[key] = None
        return True

    TokenVerifier.verify = remembered

"""AES as Java's ciphers use it; needs the package ``cryptography`` (extra ``passwords``).

Each function raises ValueError when the key does not fit.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def cbc_encrypt(key: bytes, iv: bytes, plain: bytes) -> bytes:
    """AES/CBC/PKCS5Padding."""
    padder = padding.PKCS7(128).padder()
    cipher = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    padded = padder.update(plain) + padder.finalize()
    return cipher.update(padded) + cipher.finalize()


def cbc_decrypt(key: bytes, iv: bytes, encrypted: bytes) -> bytes:
    """AES/CBC/PKCS5Padding."""
    unpadder = padding.PKCS7(128).unpadder()
    cipher = Cipher(algorithms.AES(key), modes.CBC(iv)).decryptor()
    padded = cipher.update(encrypted) + cipher.finalize()
    return unpadder.update(padded) + unpadder.finalize()


def gcm_encrypt(key: bytes, iv: bytes, plain: bytes) -> bytes:
    """AES/GCM/NoPadding; with a tag of 16 bytes at the end."""
    cipher = Cipher(algorithms.AES(key), modes.GCM(iv)).encryptor()
    return cipher.update(plain) + cipher.finalize() + cipher.tag


def gcm_decrypt(key: bytes, iv: bytes, encrypted: bytes, tag_bytes: int) -> bytes:
    """AES/GCM/NoPadding, with the tag at the end."""
    body, tag = encrypted[:-tag_bytes], encrypted[-tag_bytes:]
    mode = modes.GCM(iv, tag, min_tag_length=tag_bytes)
    cipher = Cipher(algorithms.AES(key), mode).decryptor()
    try:
        return cipher.update(body) + cipher.finalize()
    except InvalidTag:
        raise ValueError("the tag does not fit") from None

"""Packed files: one archive, compressed or not, of files that may be compressed once. Archives in archives are refused.

peeled(stream, ...)                 a file's bytes without the compression around them, and whether they are an archive
packing(stream), unpacked(stream)   how the bytes ahead are packed, and the bytes of a compressed file
zip_members, tar_members            the files in an archive, those that must not be opened with the reason
"""

from drsr.offline.ingest.archives.compressed import Compression, Layers, Packing, packing, peeled, unpacked
from drsr.offline.ingest.archives.tar_files import HELD, tar_members
from drsr.offline.ingest.archives.zip_files import zip_members

PACKED_FILES = "packed/2"
"""Raised whenever more or other archives are read: files that were refused are then read again."""

__all__ = [
    "HELD",
    "PACKED_FILES",
    "Compression",
    "Layers",
    "Packing",
    "packing",
    "peeled",
    "tar_members",
    "unpacked",
    "zip_members",
]

"""The lab: real kernels with md, dm, NVMe and SCSI, under QEMU."""

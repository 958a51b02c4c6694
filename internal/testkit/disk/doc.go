// Package disk is a file system in memory for a process under test. It is mounted, so that the process uses it like
// any other file system. It remembers each write, sync and change of a name in order, and fails on demand.
//
// From this record it derives what a disk may hold when the power fails after any of these steps: all synced data,
// and any part of the rest. It is as strict as POSIX lets a file system be. A name is safe when its directory was
// synced; a sync of the file does not make it safe. Written data is safe when the file was synced after the write
// had returned. Sectors of 512 bytes are written whole, in any order.
//
// It is made with FUSE: Linux with /dev/fuse, as root or with fusermount3.
package disk

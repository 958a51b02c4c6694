package disk

import (
	"context"
	"path"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// folder is a directory.
type folder struct {
	fs.Inode
	disk *Disk
}

var (
	_ fs.NodeCreater   = (*folder)(nil)
	_ fs.NodeMkdirer   = (*folder)(nil)
	_ fs.NodeMknoder   = (*folder)(nil)
	_ fs.NodeUnlinker  = (*folder)(nil)
	_ fs.NodeRmdirer   = (*folder)(nil)
	_ fs.NodeRenamer   = (*folder)(nil)
	_ fs.NodeFsyncer   = (*folder)(nil)
	_ fs.NodeGetattrer = (*folder)(nil)
	_ fs.NodeSetattrer = (*folder)(nil)
	_ fs.NodeStatfser  = (*folder)(nil)
)

// at is the path of a name in the directory, from the root of the disk.
func (d *folder) at(name string) string { return path.Join(d.Path(nil), name) }

// Create implements fs.NodeCreater.
func (d *folder) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := d.disk.admit(Create, d.at(name)); errno != fs.OK {
		return nil, nil, 0, errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	d.disk.files++
	f := &file{disk: d.disk, number: d.disk.files, mode: mode & 0o7777, changed: time.Now()}
	d.disk.content[f.number] = f
	d.disk.note(Event{Kind: Create, Path: d.at(name), file: f.number})
	f.attributes(&out.Attr)
	return d.NewPersistentInode(ctx, f, fs.StableAttr{Mode: fuse.S_IFREG}), nil, fuse.FOPEN_DIRECT_IO, fs.OK
}

// Mkdir implements fs.NodeMkdirer.
func (d *folder) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := d.disk.admit(MakeDir, d.at(name)); errno != fs.OK {
		return nil, errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	d.disk.note(Event{Kind: MakeDir, Path: d.at(name), file: directory})
	out.Mode = fuse.S_IFDIR | 0o700
	return d.NewPersistentInode(ctx, &folder{disk: d.disk}, fs.StableAttr{Mode: fuse.S_IFDIR}), fs.OK
}

// Mknod implements fs.NodeMknoder. It makes sockets, which a disk need not have after a
// power loss.
func (d *folder) Mknod(ctx context.Context, name string, mode, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, syscall.EPERM
	}
	out.Mode = mode
	return d.NewPersistentInode(ctx, &socket{mode: mode & 0o7777}, fs.StableAttr{Mode: syscall.S_IFSOCK}), fs.OK
}

// Unlink implements fs.NodeUnlinker.
func (d *folder) Unlink(_ context.Context, name string) syscall.Errno {
	child := d.GetChild(name)
	if child == nil {
		return syscall.ENOENT
	}
	f, is := child.Operations().(*file)
	if !is {
		return fs.OK
	}
	if errno := d.disk.admit(Remove, d.at(name)); errno != fs.OK {
		return errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	d.disk.note(Event{Kind: Remove, Path: d.at(name), file: f.number})
	f.remove()
	return fs.OK
}

// Rmdir implements fs.NodeRmdirer.
func (d *folder) Rmdir(context.Context, string) syscall.Errno { return syscall.EPERM }

// Rename implements fs.NodeRenamer, within a directory.
func (d *folder) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	f, is := d.GetChild(name).Operations().(*file)
	if to != fs.InodeEmbedder(d) || flags != 0 || !is {
		return syscall.EXDEV
	}
	if errno := d.disk.admit(Rename, d.at(name)); errno != fs.OK {
		return errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	d.disk.note(Event{Kind: Rename, Path: d.at(name), To: d.at(newName), file: f.number})
	if old := d.GetChild(newName); old != nil {
		if f, is := old.Operations().(*file); is {
			f.remove()
		}
	}
	return fs.OK
}

// Fsync implements fs.NodeFsyncer.
func (d *folder) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if errno := d.disk.admit(SyncDir, d.at("")); errno != fs.OK {
		return errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	d.disk.note(Event{Kind: SyncDir, Path: path.Join(".", d.at(""))})
	return fs.OK
}

// Getattr implements fs.NodeGetattrer.
func (d *folder) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = fuse.S_IFDIR | 0o700
	return fs.OK
}

// Setattr implements fs.NodeSetattrer.
func (d *folder) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return d.Getattr(ctx, f, out)
}

// Statfs implements fs.NodeStatfser.
func (d *folder) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	free := uint64(max(0, d.disk.capacity-d.disk.used)) / sector
	out.Bsize, out.Frsize, out.NameLen = sector, sector, 255
	out.Blocks, out.Bfree, out.Bavail = uint64(d.disk.capacity)/sector, free, free
	return fs.OK
}

// socket has no content.
type socket struct {
	fs.Inode
	mode uint32
}

var (
	_ fs.NodeGetattrer = (*socket)(nil)
	_ fs.NodeSetattrer = (*socket)(nil)
)

// Getattr implements fs.NodeGetattrer.
func (s *socket) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = syscall.S_IFSOCK | s.mode
	return fs.OK
}

// Setattr implements fs.NodeSetattrer.
func (s *socket) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if mode, is := in.GetMode(); is {
		s.mode = mode & 0o7777
	}
	return s.Getattr(ctx, f, out)
}

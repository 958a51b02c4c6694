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
	disk   *Disk
	number int
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

// name is a name in the directory.
func (d *folder) name(base string) name { return name{d.number, base} }

// Create implements fs.NodeCreater.
func (d *folder) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := d.disk.admit(Create, d.at(name)); errno != fs.OK {
		return nil, nil, 0, errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	f := &file{disk: d.disk, number: d.disk.next(), mode: mode & 0o7777, changed: time.Now()}
	d.disk.content[f.number] = f
	d.disk.note(Event{Kind: Create, Path: d.at(name), node: f.number, in: d.name(name)})
	f.attributes(&out.Attr)
	return d.NewPersistentInode(ctx, f, fs.StableAttr{Mode: fuse.S_IFREG}), handle(flags), fuse.FOPEN_DIRECT_IO, fs.OK
}

// Mkdir implements fs.NodeMkdirer.
func (d *folder) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := d.disk.admit(MakeDir, d.at(name)); errno != fs.OK {
		return nil, errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	made := &folder{disk: d.disk, number: d.disk.next()}
	d.disk.note(Event{Kind: MakeDir, Path: d.at(name), node: made.number, in: d.name(name)})
	out.Mode = fuse.S_IFDIR | 0o700
	return d.NewPersistentInode(ctx, made, fs.StableAttr{Mode: fuse.S_IFDIR}), fs.OK
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
	d.disk.note(Event{Kind: Remove, Path: d.at(name), node: f.number, in: d.name(name)})
	f.remove()
	return fs.OK
}

// Rmdir implements fs.NodeRmdirer.
func (d *folder) Rmdir(_ context.Context, name string) syscall.Errno {
	child := d.GetChild(name)
	if child == nil {
		return syscall.ENOENT
	}
	removed, is := child.Operations().(*folder)
	if !is {
		return syscall.ENOTDIR
	}
	if len(child.Children()) > 0 {
		return syscall.ENOTEMPTY
	}
	if errno := d.disk.admit(Remove, d.at(name)); errno != fs.OK {
		return errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	d.disk.note(Event{Kind: Remove, Path: d.at(name), node: removed.number, in: d.name(name)})
	return fs.OK
}

// Rename implements fs.NodeRenamer.
func (d *folder) Rename(_ context.Context, from string, parent fs.InodeEmbedder, base string, flags uint32) syscall.Errno {
	to, is := parent.(*folder)
	child := d.GetChild(from)
	switch {
	case child == nil:
		return syscall.ENOENT
	case !is || flags != 0:
		return syscall.EINVAL
	}
	number := 0
	switch moved := child.Operations().(type) {
	case *file:
		number = moved.number
	case *folder:
		number = moved.number
	default:
		return syscall.EPERM
	}
	old := to.GetChild(base)
	if old != nil && len(old.Children()) > 0 {
		return syscall.ENOTEMPTY
	}
	if errno := d.disk.admit(Rename, d.at(from)); errno != fs.OK {
		return errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	d.disk.note(Event{Kind: Rename, Path: d.at(from), To: to.at(base), node: number, in: d.name(from), to: to.name(base)})
	if old != nil {
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
	d.disk.note(Event{Kind: SyncDir, Path: path.Join(".", d.at("")), node: d.number})
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

package disk

import "path"

// root is the directory at which all paths begin.
const root = 0

// name is a name in a directory.
type name struct {
	dir  int
	base string
}

// names are files and directories by their names.
type names map[name]int

// apply applies a change, if it is still possible.
func (n names) apply(e Event) {
	switch e.Kind {
	case Create, MakeDir:
		n[e.in] = e.node
	case Remove:
		delete(n, e.in)
	case Rename:
		if node, is := n[e.in]; is {
			n[e.to] = node
			delete(n, e.in)
		}
	}
}

// paths are the paths from the root, with the numbers of their files and directories.
func (n names) paths() map[string]int {
	in := make(map[int][]name)
	for at := range n {
		in[at.dir] = append(in[at.dir], at)
	}
	paths := make(map[string]int)
	var walk func(dir int, above string)
	walk = func(dir int, above string) {
		for _, at := range in[dir] {
			to := path.Join(above, at.base)
			paths[to] = n[at]
			walk(n[at], to)
		}
	}
	walk(root, "")
	return paths
}

// change is a change of names that is not safe yet.
type change struct {
	Event
	waits []int // for the sync of these directories
}

func newChange(e Event) change {
	c := change{Event: e, waits: []int{e.in.dir}}
	if e.Kind == Rename && e.to.dir != e.in.dir {
		c.waits = append(c.waits, e.to.dir)
	}
	return c
}

// synced notes the sync of a directory, and reports whether the change is safe now.
func (c *change) synced(dir int) bool {
	var waits []int
	for _, d := range c.waits {
		if d != dir {
			waits = append(waits, d)
		}
	}
	c.waits = waits
	return len(waits) == 0
}

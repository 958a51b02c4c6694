package main

import "os"

// ballast is memory that nobody uses or touches, so it takes none of the
// machine's. But it counts when Go decides whether to look for garbage, which it
// does when the heap has doubled. Four megabytes are in use under load, and they
// would be looked through 30 times a second: 2 to 3 % of all work.
var ballast []byte

// heapFloor is how large the heap seems at least. It grows to about twice that
// between collections, half of it ballast.
const heapFloor = 32 << 20

func init() {
	if os.Getenv("GOGC") == "" { // or else it has been decided how often
		ballast = make([]byte, heapFloor)
	}
}

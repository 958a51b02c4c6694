// Package knot has files that need each other.
package knot

// Store uses nothing.
type Store struct{ open bool }

// Open is a method that other files use.
func (s *Store) Open() { s.open = true }

type opener interface{ Open() }

var names = map[string]int{}

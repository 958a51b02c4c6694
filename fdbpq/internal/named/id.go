package named

import "github.com/pqbridge/pqbridge/internal/tuple"

// ID is the definition of a name.
type ID struct {
	Home
	Name string
}

// ParseID reads of which definition a row is.
func ParseID(space string, key []byte) (ID, error) {
	h, rest, err := ParseHome(space, key)
	if err != nil {
		return ID{}, err
	}
	r := tuple.Read(rest)
	id := ID{h, r.Text()}
	if r.More() {
		id.Kind, id.Name = id.Name, r.Text()
	}
	return id, r.Err()
}

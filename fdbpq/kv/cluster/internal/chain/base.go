package chain

// FirstGeneration is the generation of a new store's log.
const FirstGeneration = 1

// Base is the payload of the record that begins a generation: the position of the copy with which it begins.
type Base struct {
	Member     string `json:"member"` // that has the copy
	Generation uint64 `json:"generation"`
	Entry      uint64 `json:"entry"`
	Hash       string `json:"hash"`
}

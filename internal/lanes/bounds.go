package lanes

// MaxTogether is how many bytes a call has at most that goes with others.
const MaxTogether = 16 << 10

// The bounds of the calls of a message, in bytes.
const (
	maxBytes = 256 << 10
	share    = 4 // of the largest message of the server they have at most this part
)

// Bytes is how many bytes the calls of a message may have where the server takes messages of largest bytes.
func Bytes(largest int64) int { return min(maxBytes, int(largest)/share) }

package source

// Mode says what happens to the messages in the stream.
type Mode string

const (
	ModeCopy Mode = "copy" // they stay there
	ModeTake Mode = "take" // they are acknowledged
)

package protocol

// Settlements: the first word of a message on an ack subject. They are
// JetStream's but for +OK, which older clients send for +ACK. An empty message is
// an acknowledgement, too.
const (
	SettleAck       = "+ACK"
	SettleOK        = "+OK"
	SettleNack      = "-NAK"
	SettleProgress  = "+WPI"
	SettleTerminate = "+TERM"
	SettleNext      = "+NXT"
)

// NackDelay is the JSON object that may follow -NAK.
type NackDelay struct {
	Delay int64 `json:"delay"` // nanoseconds
}

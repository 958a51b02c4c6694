package protocol

// Settlements: the first word of a message on an ack subject. They are
// JetStream's but for +BACK, and for +OK, which older clients send for +ACK. An empty
// message is an acknowledgement, too.
const (
	SettleAck       = "+ACK"
	SettleOK        = "+OK"
	SettleNack      = "-NAK"
	SettleBack      = "+BACK"
	SettleProgress  = "+WPI"
	SettleTerminate = "+TERM"
	SettleNext      = "+NXT"

	// SettleUnworked is what earlier clients send for SettleBack. It counts as a failure.
	SettleUnworked = SettleNack + " 0s"
)

// Results of settlements in a bundle: the first words of their lines.
const (
	ResultOK    = "+OK"  // and, behind it, when an extended lease ends
	ResultError = "-ERR" // and, behind it, the code, the reason or -, and a text
)

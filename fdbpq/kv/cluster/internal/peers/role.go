package peers

// Role says what a member does.
type Role string

// The roles of a member.
const (
	Follower  Role = "follower"  // it follows the log
	Candidate Role = "candidate" // it heard no active member, and tries to become active
	Active    Role = "active"    // it runs transactions
	Stopped   Role = "stopped"   // its copy and the log do not belong together
)

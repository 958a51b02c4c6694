package fdbpq

// A queue within a transaction has parts. Each has the rules of some rows, or of one way in which items change, and no
// state but that of the queue. A Work makes them once for each queue.

// rowParts are the parts that read and write rows, and change no items.
type rowParts struct {
	answers    answers
	attemptLog attemptLog
	capacity   capacity
	contents   contents
	explains   explains
	fairIndex  fairIndex
	fences     fences
	ids        ids
	keyIndex   keyIndex
	keyInfos   keyInfos
	keyLimits  keyLimits
	keyWaits   keyWaits
	lists      lists
	rates      rates
	reasons    reasons
	results    results
	settings   settings
	timers     timers
	unique     unique
}

func rowPartsOf(q *queueRows) rowParts {
	return rowParts{
		answers{q}, attemptLog{q}, capacity{q}, contents{q}, explains{q}, fairIndex{q}, fences{q}, ids{q}, keyIndex{q}, keyInfos{q},
		keyLimits{q}, keyWaits{q}, lists{q}, rates{q}, reasons{q}, results{q}, settings{q}, timers{q}, unique{q},
	}
}

// itemParts are the parts that change items, make queues, or report events.
type itemParts struct {
	deadLetters deadLetters
	expiries    expiries
	holds       holds
	leases      leases
	popIDs      popIDs
	pops        pops
	retries     retries
}

func itemPartsOf(qtx *queueTx) itemParts {
	return itemParts{deadLetters{qtx}, expiries{qtx}, holds{qtx}, leases{qtx}, popIDs{qtx}, pops{qtx}, retries{qtx}}
}

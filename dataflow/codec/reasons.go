package codec

// Reasons of bad records. They are stable: users filter by them.
const (
	// ReasonInvalidJSON: no JSON document by RFC 8259.
	ReasonInvalidJSON = "invalid_json"
	// ReasonInvalidUTF8: bytes that are no UTF-8, or half of a surrogate pair.
	ReasonInvalidUTF8 = "invalid_utf8"
	// ReasonTooDeep: arrays and objects nest deeper than depth.
	ReasonTooDeep = "too_deep"
	// ReasonTooLarge: more bytes than max_record.
	ReasonTooLarge = "too_large"
	// ReasonTooManyFields: more members of objects than max_fields.
	ReasonTooManyFields = "too_many_fields"
	// ReasonNotAnObject: a document that is no object.
	ReasonNotAnObject = "not_an_object"
	// ReasonMistyped: a value of another type than its column's.
	ReasonMistyped = "mistyped"
	// ReasonOutOfRange: a value of the right type that its column cannot hold.
	ReasonOutOfRange = "out_of_range"
	// ReasonInvalidTime: a text that is no date or time.
	ReasonInvalidTime = "invalid_time"
	// ReasonMissingRequired: a required column is absent or null.
	ReasonMissingRequired = "missing_required"
	// ReasonExtraField: a field outside the schema, under extra: bad.
	ReasonExtraField = "extra_field"
	// ReasonNotFramed: a payload without the head of a schema registry's format.
	ReasonNotFramed = "not_framed"
	// ReasonUnknownSchema: the registry has no schema of the payload's id.
	ReasonUnknownSchema = "unknown_schema"
	// ReasonIncompatibleSchema: what the schema that the payload was written with holds
	// does not fit the columns.
	ReasonIncompatibleSchema = "incompatible_schema"
	// ReasonInvalidAvro: bytes that are no value of their schema of Avro.
	ReasonInvalidAvro = "invalid_avro"
	// ReasonInvalidProtobuf: bytes that are no message of Protobuf.
	ReasonInvalidProtobuf = "invalid_protobuf"
	// ReasonSchemaViolation: a document that its JSON Schema does not allow.
	ReasonSchemaViolation = "schema_violation"
)

"use strict";

// validatorUrl would send the document's address to a validator elsewhere.
SwaggerUIBundle({ url: "openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null });

// Makes Firefox run check.cfg from its own directory at every start; goes into defaults/pref.
pref("general.config.filename", "check.cfg");
pref("general.config.obscure_value", 0);
pref("general.config.sandbox_enabled", false);
